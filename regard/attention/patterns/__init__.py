"""places → which keys a query may see."""
