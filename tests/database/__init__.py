"""How tests empty the database: quickly. Every test that commits needs it, and there are thousands of them."""
