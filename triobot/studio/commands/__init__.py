"""The commands of a developer: each module has the name of one."""
