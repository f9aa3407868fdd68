"""Pictures of the dashboard: where each line and box is. The templates write them as SVG."""
