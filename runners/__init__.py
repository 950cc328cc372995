"""Everything that touches weights, data, clocks and disks."""
