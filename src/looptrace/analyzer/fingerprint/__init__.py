"""When two calls, outcomes, failures or requests are the same."""
