"""Getting documents from the web: who may be asked, for how long, and for how much."""
