"""Statistics: rates, sizes, keys and codecs of partitions, in bounded memory."""
