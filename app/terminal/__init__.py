"""What commands print, ask and show on a terminal."""
