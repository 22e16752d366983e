"""JupyterLab's server as `make lab` and the browser tests start it."""

import sys


def main():
    # Without a validator of internationalized addresses that nobody needs here: its import takes longer than all others together.
    sys.modules["rfc3987_syntax"] = None
    from jupyter_server.services.kernels.websocket import KernelWebsocketHandler
    from jupyterlab import labapp

    send_at_once(KernelWebsocketHandler)
    labapp.main()


def send_at_once(handler):
    """Let connections of this class send each message at once: waiting for more of them costs every answer of a widget 40 ms."""
    open_connection = handler.open

    async def open_without_delay(self, kernel_id):
        self.set_nodelay(True)
        await open_connection(self, kernel_id)

    handler.open = open_without_delay


if __name__ == "__main__":
    main()
