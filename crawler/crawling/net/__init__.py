"""Connections: which addresses may be asked, who must prove who it is, what is kept open."""
