"""What a developer has beside a bot: nothing in production loads it."""
