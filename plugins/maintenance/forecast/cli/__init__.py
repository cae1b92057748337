"""Options of forecasts, and how they are printed."""
