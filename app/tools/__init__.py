"""Tools that models call: built in, or of servers that speak MCP."""
