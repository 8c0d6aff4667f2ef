"""Result sets: written once, whole, and never changed."""
