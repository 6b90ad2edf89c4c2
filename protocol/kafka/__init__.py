"""The Kafka protocol: messages declared once for all versions, codecs compiled from them.

`message.py` says how a message is declared; one module a family of APIs declares them; `apis.py`
lists them with the versions that are served; `codec.py` turns frames into messages and back.
"""
