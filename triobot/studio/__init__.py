"""Development tools for a bot; code in production never imports this package."""
