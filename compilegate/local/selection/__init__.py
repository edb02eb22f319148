"""Which steps are carried out, left out, or stood for by a stub."""
