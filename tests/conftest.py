"""What holds for all tests: signals mean what they mean in a terminal."""

import signal
import threading

# Under nohup, or in the background of a script, these are ignored, and every child inherits that:
# then Ctrl-C and a hang-up, which tests send, would do nothing.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
