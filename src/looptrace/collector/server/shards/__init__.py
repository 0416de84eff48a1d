"""Several servers as one: the server of each span, and the forwarding of spans."""
