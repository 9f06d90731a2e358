"""What `qd.init` starts, and what a launch asks for when nothing compiled fits."""
