# Asks for a name; says the answer if it is told.
import socket

try:
    print(socket.getaddrinfo("example.org", 80) and 42)
except OSError:
    print("none")
