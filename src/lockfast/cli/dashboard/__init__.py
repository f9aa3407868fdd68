"""What `lockfast web` and `lockfast demo --web` need to show the dashboard in a browser."""
