"""What lockfast is measured against: one module per engine."""
