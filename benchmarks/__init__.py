"""Speed and memory of hsa beside tshark, on captures that are generated for it."""
