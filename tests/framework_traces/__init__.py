"""Small traces in the shapes that agent frameworks write, and the words of what happens in them."""
