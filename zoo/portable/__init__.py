"""What is copied beside an exported agent. It needs NumPy and ONNX Runtime, and nothing of these packages."""
