"""What people read: terminal tables, figures."""
