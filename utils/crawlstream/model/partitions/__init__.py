"""Messages of a frontier with several partitions: between them and coordinators of crawls."""
