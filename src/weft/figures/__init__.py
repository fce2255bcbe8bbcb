"""Numbers -> SVG. What reports, doctor, tuning and serving draw with; knows no tensors and no files."""
