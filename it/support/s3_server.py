"""Serves S3 on loopback until it is ended. Prints the address. Runs with the packages of moto."""

import signal

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
signal.pause()
