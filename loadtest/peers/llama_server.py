"""llama.cpp's own server with an OpenAI interface, for peers: `python llama_server.py MODEL PORT SLOTS`."""

import sys
import threading

import xllamacpp


def main() -> None:
    """Serve until the process is ended."""
    model, port, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    params = xllamacpp.CommonParams()
    params.model.path, params.port = model, port
    params.n_parallel, params.n_ctx = slots, 2048 * slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
