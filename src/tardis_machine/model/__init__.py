"""Words of the domain: records, data types, requests, time, numbers and errors."""
