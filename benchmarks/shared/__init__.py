"""What two or more programs share; nothing here is run by itself."""
