"""What a frontier of several partitions needs beside: see docs/partitions.md."""
