"""The website: `make site`."""
