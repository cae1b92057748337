"""Pictures of how full a cluster is: values become SVG.  Pure; who computes the values is above."""
