"""Values and protocols that cross the packages, none of which knows another."""
