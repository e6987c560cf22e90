"""What memory is planned and held."""
