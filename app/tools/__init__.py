"""Tools that models call: built in, or of MCP servers."""
