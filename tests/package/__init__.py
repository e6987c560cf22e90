"""What Cutaway is given away as: the wheel, the bundle, and the notices of what comes along."""
