"""Volume plug-ins, one file each. What they have in common is in the contract; `table` lists them."""
