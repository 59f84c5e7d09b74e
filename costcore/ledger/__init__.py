"""What each call and each module of a run costs, and what the numbers leave out."""
