"""The publisher: get a batch, publish it, acknowledge it when the output has confirmed it, else roll back."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import canal_group
from canal_group.client.consumer import Consumer
from canal_group.conf.relay.relay_settings import RelaySettings
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import (
    AckOutOfOrder,
    CanalGroupError,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    SinkRefused,
    SinkUnavailable,
    UnknownBatch,
)
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.counters import Counters
from canal_group.programs.output.feed import Feed, Piece
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.kinds import sink_of
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Router
from canal_group.programs.output.sink import Sink

#: how long one attempt to become the active consumer lasts, seconds
_WAIT_S = 2.0
#: interval at which progress is logged, seconds
_TOLD_EVERY_S = 30.0
#: the active publisher opens its sink again if another one took it over, but once in this time only, seconds:
#: two that alternate belong to two groups with one name
_TAKEN_OVER_EVERY_S = 60.0
#: of an acknowledgement: the batch is delivered again, or the next offset range says what is finished
_FORGOTTEN = (AckOutOfOrder, RolledBack, UnknownBatch)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _State:
    #: the cursor at the subscription: where an output begins that has no position
    first: GroupPosition
    #: after what was confirmed last; None: the sink has to be opened
    position: GroupPosition | None = None
    is_subscribed: bool = True
    #: whether the feed reads after `position`
    is_reading: bool = False


class Publisher:
    """Publishes one destination to one output until it is told to stop.

    Args:
        settings: what to read and where to publish.
        stop: set to end; the batch that is being published is finished first.
    """

    def __init__(self, settings: RelaySettings, stop: threading.Event) -> None:
        self.settings, self._stop = settings, stop
        self._sink: Sink = sink_of(settings.output, settings.name)
        self._router = Router(settings.route, table_filter=settings.read.filter)
        self._format = format_of(settings.format)
        self._back_off = BackOff(settings.retry.max_s)
        #: what it has done, for metrics
        self.counters = Counters()
        self._logged = (time.monotonic(), 0)
        self._taken_over_s = float("-inf")

    @property
    def published(self) -> int:
        """Messages that were confirmed."""
        return self.counters.messages

    def run(self) -> None:
        """Publish until `stop` is set.

        Raises:
            FencedError: another publisher of the same name took over.
            DataError: the output refuses a message, or a source has purged the position.
            UsageError: a setting, a token or a position is wrong.
        """
        consumer = self._subscribed()
        if consumer is None:
            return
        try:
            with consumer:
                self._publish(consumer)
        finally:
            self._sink.close()

    def _subscribed(self) -> Consumer | None:
        """Return the active consumer of the client id, when it is ours; None: told to stop before."""
        message = ""
        while not self._stop.is_set():
            try:
                return _connect(self.settings)
            except RetryableError as error:
                if str(error) != message:
                    message = str(error)
                    _log.info("waiting: %s", message)
                self._stop.wait(self._pause_s())
        return None

    def _publish(self, consumer: Consumer) -> None:
        feed = Feed(
            consumer,
            self._format.read,
            self._messages,
            rows_max=self.settings.batch.rows_max,
            bytes_max=self.settings.batch.bytes_max,
            by_position=self._sink.keeps_position,
            quiet_s=self.settings.batch.quiet_s,
        )
        state = _State(first=consumer.cursor)
        try:
            while not self._stop.is_set():
                try:
                    self._step(consumer, feed, state)
                except SinkUnavailable as error:
                    state.position, state.is_reading = None, False
                    self._pause(error)
                except FencedError as error:
                    if state.position is None:
                        raise
                    # A paused predecessor may have opened the output; the group knows the active relay.
                    self._was_taken_over(error)
                    state.position, state.is_reading = None, False
                except NotSubscribed:
                    self.counters.stopped()
                    state.is_subscribed, state.is_reading = False, False
                except RolledBack as error:
                    _log.info("reading again: %s", error)
                    self.counters.rolled_back()
                    state.is_reading = False
                except RetryableError as error:
                    state.is_reading = False
                    self._pause(error)
        finally:
            feed.close()

    def _step(self, consumer: Consumer, feed: Feed, state: _State) -> None:
        if not state.is_subscribed:
            state.is_subscribed = consumer.resubscribe()
        if state.position is None:
            # To open the sink refuses whoever has it open: only the active consumer may.
            consumer.check_active()
            state.position = self._opened(state.first)
        if not state.is_reading:
            feed.begin(state.position)
            state.is_reading = True
            self.counters.opened(state.position)
        piece = feed.next()
        if piece is not None:
            self._confirm(piece)
            state.position = piece.batch.end
            self._acknowledge(feed, piece)

    def _opened(self, first: GroupPosition) -> GroupPosition:
        self._sink.close()
        stored = self._sink.open()
        if stored is None and self._sink.keeps_position:
            _log.info("the output has no position of %s: it begins at the cursor", self.settings.name)
            # The cursor may pass what is not confirmed: an offset range that is read ahead says that what is
            # before it is stored, and a group that begins again takes that for granted.
            self._sink.confirm(first)
        position = first if stored is None else stored
        _log.info("publishing %s from row %d on", self.settings.name, position.sequence)
        return position

    def _was_taken_over(self, error: FencedError) -> None:
        """Note that the sink was taken over; raise the error again if that happened a short time ago."""
        now_s = time.monotonic()
        if now_s < self._taken_over_s + _TAKEN_OVER_EVERY_S:
            raise error
        self._taken_over_s = now_s
        _log.warning("%s It goes on here if the group says that this one is active.", error.message)

    def _confirm(self, piece: Piece) -> None:
        try:
            self._sink.write(piece.messages)
            self._sink.flush()
            self._sink.confirm(piece.batch.end)
        except SinkRefused as error:
            table = self._router.table_of(str(error.details.get("topic", "")))
            if table is not None:
                error.message = f"Of table {table}: {error.message}"
                error.details["table"] = str(table)
            raise
        self.counters.confirmed(piece.messages, piece.batch.end)
        self._back_off.reset()
        self._tell()

    def _acknowledge(self, feed: Feed, piece: Piece) -> None:
        try:
            feed.acknowledge(piece)
        except _FORGOTTEN as error:
            # Published, but the server delivers it again: to a sink that keeps no position a second time.
            raise RolledBack(
                f"Batch {piece.batch.batch_id} was rolled back after it was published."
            ) from error

    def _messages(self, rows: pa.Table) -> Messages:
        return self._format.make(*self._router.addressed(rows))

    def _pause(self, error: CanalGroupError) -> None:
        self.counters.failed(type(error).__name__)
        pause_s = self._pause_s()
        _log.warning("%s Next attempt in %.1f s.", error, pause_s)
        self._stop.wait(pause_s)

    def _pause_s(self) -> float:
        return self._back_off.failed(self.settings.retry.first_s, random.random())  # noqa: S311  no secret

    def _tell(self) -> None:
        since_s, before = self._logged
        now_s = time.monotonic()
        if now_s >= since_s + _TOLD_EVERY_S:
            rate = (self.published - before) / (now_s - since_s)
            _log.info("published %d messages, %.0f a second", self.published, rate)
            self._logged = now_s, self.published


def _connect(settings: RelaySettings) -> Consumer:
    source = settings.read
    options: dict[str, Any] = {
        name: getattr(source, name)
        for name in (
            "zookeeper",
            "client_id",
            "filter",
            "start",
            "snapshot",
            "resume",
            "token",
            "zookeeper_auth",
            "prefix",
        )
    }
    tls = {name: getattr(source, name) for name in ("tls_ca", "tls_cert", "tls_key")}
    return canal_group.connect(
        source.gateway, destination=settings.destination, wait_s=_WAIT_S, retry_s=_WAIT_S, **options, **tls
    )
