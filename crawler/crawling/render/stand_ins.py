"""JavaScript that replaces the interfaces by which a page could connect past the judge.

The browser reports no request of these, so pages get classes of the same name that connect to
nothing and fail as a refused connection does: a constructor accepts a valid URL, events come later,
promises reject. A page that does not expect a failure goes on, as in any browser that is offline.

The script runs in each frame ahead of the page's own, and keeps no way to what it replaces. Workers
never start (their requests could not be held), so it need not run in them.
"""

from __future__ import annotations

from typing import Final

STAND_INS: Final = """(() => {
  const soon = setTimeout.bind(globalThis), none = () => {};
  const error = name => new DOMException("The connection was refused.", name || "NetworkError");
  const refuse = () => Promise.reject(error());
  const settled = () => { const promise = refuse(); promise.catch(none); return promise; };
  const parsed = (text, ...schemes) => {
    let url;
    try { url = new URL(text, document.baseURI); } catch { throw error("SyntaxError"); }
    if (schemes.length && !schemes.includes(url.protocol)) throw error("SyntaxError");
    return url;
  };
  class Refused extends EventTarget {
    constructor(...types) {
      super();
      for (const type of types) {
        this["on" + type] = null;
        this.addEventListener(type, event => {
          const handler = this["on" + type];
          if (typeof handler === "function") handler.call(this, event);
        });
      }
    }
  }
  const fire = (target, type) => target.dispatchEvent(new Event(type));
  const methods = (kind, names, does) => {
    for (const name of names) kind.prototype[name] = does;
  };
  const states = (kind, ...names) => names.forEach((name, value) => {
    for (const place of [kind, kind.prototype]) Object.defineProperty(place, name, {value});
  });

  class WebSocket extends Refused {
    constructor(url, _protocols) {
      if (!arguments.length) throw new TypeError("1 argument required, but only 0 present.");
      const to = parsed(url, "ws:", "wss:", "http:", "https:");
      super("open", "message", "error", "close");
      to.protocol = to.protocol.replace("http", "ws");
      Object.assign(this, {url: to.href, readyState: 0, bufferedAmount: 0, extensions: "",
        protocol: "", binaryType: "blob"});
      soon(() => {
        this.readyState = 3;
        fire(this, "error");
        this.dispatchEvent(new CloseEvent("close", {code: 1006, wasClean: false}));
      });
    }
    send() { if (!this.readyState) throw error("InvalidStateError"); }
    close() { if (!this.readyState) this.readyState = 2; }
  }
  states(WebSocket, "CONNECTING", "OPEN", "CLOSING", "CLOSED");

  class EventSource extends Refused {
    constructor(url, options) {
      if (!arguments.length) throw new TypeError("1 argument required, but only 0 present.");
      const to = parsed(url);
      super("open", "message", "error");
      Object.assign(this, {url: to.href, readyState: 0,
        withCredentials: !!options?.withCredentials});
      soon(() => {
        if (this.readyState === 2) return;
        this.readyState = 2;
        fire(this, "error");
      });
    }
    close() { this.readyState = 2; }
  }
  states(EventSource, "CONNECTING", "OPEN", "CLOSED");

  class Worker extends Refused {
    constructor(url) {
      if (!arguments.length) throw new TypeError("1 argument required, but only 0 present.");
      parsed(url);
      super("message", "messageerror", "error");
      soon(() => this._isOver || fire(this, "error"));
    }
    terminate() { this._isOver = true; }
  }
  methods(Worker, ["postMessage"], none);

  class SharedWorker extends Refused {
    constructor(url) {
      if (!arguments.length) throw new TypeError("1 argument required, but only 0 present.");
      parsed(url);
      super("error");
      this.port = new MessageChannel().port1;
      soon(() => fire(this, "error"));
    }
  }

  class RTCDataChannel extends Refused {
    constructor(label) {
      super("open", "message", "bufferedamountlow", "closing", "error", "close");
      Object.assign(this, {label: String(label), readyState: "connecting", bufferedAmount: 0,
        binaryType: "arraybuffer", id: null});
      soon(() => {
        this.readyState = "closed";
        fire(this, "error");
        fire(this, "close");
      });
    }
    send() { throw error("InvalidStateError"); }
    close() { this.readyState = "closed"; }
  }
  class RTCPeerConnection extends Refused {
    constructor() {
      super("connectionstatechange", "datachannel", "icecandidate", "icecandidateerror",
        "iceconnectionstatechange", "icegatheringstatechange", "negotiationneeded",
        "signalingstatechange", "track");
      Object.assign(this, {connectionState: "new", iceConnectionState: "new",
        iceGatheringState: "new", signalingState: "stable", localDescription: null,
        remoteDescription: null, currentLocalDescription: null, currentRemoteDescription: null,
        pendingLocalDescription: null, pendingRemoteDescription: null, sctp: null,
        canTrickleIceCandidates: null});
      soon(() => {
        if (this.signalingState === "closed") return;
        this.connectionState = this.iceConnectionState = "failed";
        fire(this, "iceconnectionstatechange");
        fire(this, "connectionstatechange");
      });
    }
    static generateCertificate() { return refuse(); }
    createDataChannel(label) { return new RTCDataChannel(label); }
    close() {
      this.signalingState = this.connectionState = this.iceConnectionState = "closed";
    }
    getConfiguration() { return {}; }
  }
  methods(RTCPeerConnection, ["addIceCandidate", "createAnswer", "createOffer", "getStats",
    "setLocalDescription", "setRemoteDescription"], refuse);
  methods(RTCPeerConnection, ["getReceivers", "getSenders", "getTransceivers",
    "getLocalStreams", "getRemoteStreams"], () => []);
  methods(RTCPeerConnection, ["addTrack", "addTransceiver"], track => ({sender: {track},
    receiver: {}, track, direction: "inactive", stop: none, replaceTrack: refuse}));
  methods(RTCPeerConnection, ["addStream", "removeStream", "removeTrack", "restartIce",
    "setConfiguration"], none);

  const broken = () => new ReadableStream({start: to => to.error(error())});
  class WebTransport {
    constructor(url) {
      parsed(url, "https:");
      Object.assign(this, {ready: settled(), closed: settled(), draining: new Promise(none),
        incomingBidirectionalStreams: broken(), incomingUnidirectionalStreams: broken(),
        datagrams: {readable: broken(), maxDatagramSize: 0,
          writable: new WritableStream({start: to => to.error(error())})}});
    }
    close() {}
  }
  methods(WebTransport, ["createBidirectionalStream", "createUnidirectionalStream", "getStats"],
    refuse);
  class WebSocketStream {
    constructor(url) {
      this.url = parsed(url, "ws:", "wss:", "http:", "https:").href;
      Object.assign(this, {opened: settled(), closed: settled()});
    }
    close() {}
  }

  const kinds = {EventSource, RTCDataChannel, RTCPeerConnection, SharedWorker, WebSocket,
    WebSocketStream, WebTransport, Worker, webkitRTCPeerConnection: RTCPeerConnection};
  for (const name in kinds) {
    if (!delete globalThis[name]) continue;
    Object.defineProperty(globalThis, name,
      {value: kinds[name], writable: true, configurable: true, enumerable: false});
  }

  const container = Object.assign(new Refused("controllerchange", "message", "messageerror"),
    {controller: null, ready: new Promise(none), register: refuse, startMessages: none,
      getRegistration: () => Promise.resolve(), getRegistrations: () => Promise.resolve([])});
  if ("serviceWorker" in Navigator.prototype) {
    Object.defineProperty(Navigator.prototype, "serviceWorker",
      {get: () => container, configurable: true, enumerable: true});
  }
})()"""
