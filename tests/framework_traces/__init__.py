"""Small traces in the shapes that agent frameworks write, and the script that writes them."""
