"""What users hold in their hands, shared by both colours: each noun is written once."""
