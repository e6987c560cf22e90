"""What charts are painted with, small charts, and walking over their parts by keyboard."""
