"""Fields, ndarrays, tensors and views, and how their memory reaches other libraries."""
