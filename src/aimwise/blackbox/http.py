"""A model behind an address: inputs go out as JSON, probabilities come back."""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from aimwise.blackbox.base import BlackBox, as_matrix, known_output, normalised, settled
from aimwise.errors import BadBlackBox, BadSetting, NoAnswer

AGAIN = (408, 425, 429, 500, 502, 503, 504)  # answers that another try may change
BUSY = (429, 502, 503, 504)  # what a service says that is not there or overloaded, whatever it was asked
LONGEST_WAIT = 30.0
FIRST_WAIT = 0.25
SHOWN = 200  # characters of an answer in an error


class StayHere(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed: inputs and headers go to the address that was given and to no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


class HttpBox(BlackBox):
    """A service that is sent {"inputs": [...]} and answers {"probs": [[...], ...]}, with "classes": [...] if these have names.

    Texts are sent as strings, rows of a DataFrame as objects by column, arrays and images as nested lists.
    batch_size: how many inputs are sent at once. timeout: seconds to wait for an answer. retries: how often to ask again after a
    lost connection, a timeout or an answer that says "later", waiting longer each time. headers: sent with every request.
    """

    def __init__(
        self,
        url: str,
        *,
        batch_size: int = 256,
        timeout: float = 30.0,
        retries: int = 3,
        headers: Mapping[str, str] | None = None,
        output: str = "probs",
        class_names: Sequence[str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadSetting(f"Got the address {url!r}, wanted http://host/path or https://host/path.")
        if parts.username or parts.password:
            raise BadSetting("The address holds a name or password, which would be written down. Pass them as a header.")
        if batch_size < 1 or timeout <= 0 or retries < 0:
            raise BadSetting(
                f"Got batch_size={batch_size}, timeout={timeout}, retries={retries}; wanted batch_size of at least 1, "
                "timeout above 0, retries not below 0."
            )
        self.url, self.timeout, self.retries, self.headers = url, timeout, retries, dict(headers or {})
        self.rows_per_call = batch_size
        self.output = known_output(output)
        self.class_names = tuple(map(str, class_names)) if class_names is not None else None
        self.opener = urllib.request.build_opener(StayHere)

    def _answer(self, inputs: Any) -> Any:
        sent = as_json(inputs)
        parts = [sent[start : start + self.rows_per_call] for start in range(0, len(sent), self.rows_per_call)] or [[]]
        answer = as_matrix([row for part in parts for row in self._probs(part)], len(sent))
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)

    def _probs(self, inputs: list[Any]) -> list[Any]:
        """The rows of one answer."""
        said = self._asked(json.dumps({"inputs": inputs}, allow_nan=False).encode())
        try:
            answer = json.loads(said)
        except (UnicodeDecodeError, json.JSONDecodeError) as e:
            raise BadBlackBox(f'{self.url} answered {short(said)}, wanted JSON: {{"probs": [[...], ...]}}.') from e
        if not isinstance(answer, dict) or not isinstance(answer.get("probs"), list):
            raise BadBlackBox(f'{self.url} answered {short(said)}, wanted {{"probs": [[...], ...]}}.')
        if len(answer["probs"]) != len(inputs):
            raise BadBlackBox(f"{self.url} answered {len(answer['probs'])} rows for {len(inputs)} inputs, wanted one each.")
        if self.class_names is None and isinstance(answer.get("classes"), list):
            self.class_names = tuple(map(str, answer["classes"]))
        rows: list[Any] = answer["probs"]
        return rows

    def _asked(self, body: bytes) -> bytes:
        """The body of the answer, asked for again after what may pass."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        for attempt in range(self.retries + 1):
            last, wait = attempt == self.retries, min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
            try:
                request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
                with self.opener.open(request, timeout=self.timeout) as response:
                    said: bytes = response.read()
                    return said
            except urllib.error.HTTPError as e:
                with e:
                    said = e.read(SHOWN)
                if e.code not in AGAIN or last:
                    raise refused(self.url, e, said, attempt + 1) from e
                wait = max(wait, asked_to_wait(e.headers.get("Retry-After")))
            except (OSError, http.client.HTTPException) as e:  # lost or refused connections, timeouts, half answers
                if last:
                    why = getattr(e, "reason", None) or e
                    raise NoAnswer(
                        f"{self.url} cannot be reached ({type(e).__name__}: {why}; {attempt + 1} tries of {self.timeout:g} s). "
                        "Check that the service runs, or allow more time and retries."
                    ) from e
            time.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")


def refused(url: str, error: urllib.error.HTTPError, said: bytes, tries: int) -> BadBlackBox | NoAnswer:
    """The error for an answer that is not one."""
    if 300 <= error.code < 400:
        return NoAnswer(f"{url} sends on to {error.headers.get('Location')}, which is not followed. Pass that address.")
    if error.code in (401, 403, 404, 405):
        return NoAnswer(f"{url} answered {error.code} {error.reason}: {short(said)}. Check the address, and the header it wants.")
    kind = NoAnswer if error.code in BUSY else BadBlackBox
    return kind(f"{url} answered {error.code} {error.reason} in {tries} tries: {short(said)}.")


def asked_to_wait(header: str | None) -> float:
    """The seconds that a service asks for, as far as we wait for anything."""
    try:
        seconds = float(header or 0)
    except ValueError:
        return 0.0
    return min(seconds, LONGEST_WAIT) if math.isfinite(seconds) else 0.0


def as_json(inputs: Any) -> list[Any]:
    """Inputs as JSON knows them: texts, objects by column name, or nested lists; a missing number is null."""
    if hasattr(inputs, "to_dict") and hasattr(inputs, "columns"):
        return [{str(name): plain(v) for name, v in row.items()} for row in inputs.to_dict("records")]
    if isinstance(inputs, np.ndarray) or hasattr(inputs, "numpy"):
        return [plain(row) for row in np.asarray(inputs).tolist()]
    return [plain(one if isinstance(one, str) else np.asarray(one).tolist()) for one in inputs]


def plain(value: Any) -> Any:
    """One value as JSON knows it."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if value != value else str(value)  # a missing date is not itself


def short(said: bytes) -> str:
    """The beginning of an answer, to be read in an error."""
    text = " ".join(said[:SHOWN].decode("utf-8", "replace").split())
    return repr(text + "..." * (len(said) >= SHOWN)) if text else "nothing"
