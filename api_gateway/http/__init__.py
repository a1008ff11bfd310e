"""Request and response shapes and their conversion to records: the JSON names of the interface live only here."""
