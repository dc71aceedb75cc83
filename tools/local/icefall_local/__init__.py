"""The local run: real parts on this machine, and what stands in for the AWS services around the functions.

Real are the object store, the Iceberg REST catalog, the queue, the Kafka broker and the functions' own
processes. Emulated are the Lambda service, the Kafka event source mapping and the scheduler, because no
installable program does those. What the run must end in is worked out by the generator alone and compared
by readers that nobody here wrote.
"""
