"""llama.cpp's own server, which xllamacpp has as a library: `llama_server.py FILE.gguf PORT SLOTS CONTEXT`."""

import signal
import sys

import xllamacpp

path, port, slots, context = sys.argv[1], *map(int, sys.argv[2:5])
options = xllamacpp.CommonParams()
options.model.path = path
options.model_alias = {"smollm2"}
options.hostnames, options.port = ["127.0.0.1"], port
options.n_parallel, options.n_ctx = slots, context
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(options)
signal.pause()
