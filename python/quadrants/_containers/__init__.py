"""Fields, ndarrays, tensors and views, and the access of other libraries to their memory."""
